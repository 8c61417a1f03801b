"""The archive, its series and its audits over HTTP."""
