"""What became of the runs of each job by the minute, hour and day, beyond the time that runs are kept."""
