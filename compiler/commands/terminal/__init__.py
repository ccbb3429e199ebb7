"""Options, progress, errors and exit codes that commands share."""
