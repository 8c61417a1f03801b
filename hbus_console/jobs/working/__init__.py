"""The role jobs: Celery workers that do the work of runs."""
