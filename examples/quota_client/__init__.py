"""A reference client of the quotas over the REST API."""
