"""What a person sees of runs: profiles, their views and exports, and comparisons of several."""
