"""The embedded engine of hbus: a library that knows neither Django nor Celery."""
