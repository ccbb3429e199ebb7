"""The campaign: random trials of every way into relayvm, in child processes, as many as time allows.

    python -m tests.campaign                      # every part, 60 seconds in all
    python -m tests.campaign texts --trials 50000
    python -m tests.campaign texts --seed 1234 --trials 1   # one trial again

A trial is drawn from its seed alone, so a seed is a finding's name.  A finding (a wrong result, an error that is not ours, a
crash, a hang) is made smaller and written to a file that is a test.  ``make fuzz SECONDS=...`` is the same.
"""
