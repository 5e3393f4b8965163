"""What each class of attacker learns from a release."""

from trajcloak.attackers.candidates import ATTACKERS, Finding
from trajcloak.attackers.released import attack_release
from trajcloak.attackers.study import Attack, Breach, Step, attack

__all__ = ["ATTACKERS", "Attack", "Breach", "Finding", "Step", "attack", "attack_release"]
