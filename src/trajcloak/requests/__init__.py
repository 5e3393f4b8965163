"""Which requests may be published, decided after users are bundled.

Every rule here is a function of the eligible sets alone, and of who is in which bundle
(invariant 8 of ``docs/guarantee.md``): never of who sent a request or how often.
"""
