"""The machine itself: arguments, runs, errors, kernels in Python; ``vm.api`` adds what users call."""
