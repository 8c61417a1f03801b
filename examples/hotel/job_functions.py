"""What the hotels' jobs may run."""

from __future__ import annotations

from engine.cron.work.call import RunContext
from engine.cron.work.functions import job_function
from examples.hotel import closing, invoicing, parity


@job_function("hotel.nightly-close")
def nightly_close(context: RunContext) -> str:
    """Count the stays of the day, and tell all teams."""
    return closing.close(context)


@job_function("hotel.rate-parity")
def rate_parity(context: RunContext, pause_s: float = 18.0) -> str:
    """Compare our rates with the partner's: eighteen, and so many seconds for each."""
    return parity.check(context, pause_s)


@job_function("hotel.month-end-invoice")
def month_end_invoice(context: RunContext, print_s: float = 20.0) -> str:
    """Write each hotel's invoice for the month that is over."""
    return invoicing.invoice(context, print_s)
