"""What each class of attacker learns from a release."""

from trajcloak.attackers.candidate_sets import ATTACKERS, Finding
from trajcloak.attackers.study import Attack, Breach, BreachStep, attack_policies, attack_release

__all__ = [
    "ATTACKERS",
    "Attack",
    "Breach",
    "BreachStep",
    "Finding",
    "attack_policies",
    "attack_release",
]
