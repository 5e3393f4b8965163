"""What each class of attacker learns from a release."""

from trajcloak.attackers.candidate_sets import ATTACKERS, Finding
from trajcloak.attackers.study import Attack, Breach, attack_policies, attack_release

__all__ = [
    "ATTACKERS",
    "Attack",
    "Breach",
    "Finding",
    "attack_policies",
    "attack_release",
]
