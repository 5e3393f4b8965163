"""Tests of the audit: an undamaged release passes, each planted damage is found."""
