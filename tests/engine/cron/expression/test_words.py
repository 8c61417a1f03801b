from __future__ import annotations

import pytest

from engine.cron.expression import compile_schedule, explain


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("* * * * *", "Every minute, Europe/Lisbon time."),
        ("*/5 * * * *", "Every 5th minute, Europe/Lisbon time."),
        ("0 * * * *", "Minute 0 of every hour, Europe/Lisbon time."),
        ("@never", "Never by itself: after another job, or when somebody triggers it."),
        ("@hourly", "Minute 0 of every hour, Europe/Lisbon time."),
        ("30 2 * * *", "At 02:30 every day, Europe/Lisbon time."),
        ("30 2 * * 1-5", "At 02:30 on Monday to Friday, Europe/Lisbon time."),
        ("0 17,9 1,15 * *", "At 09:00 and 17:00 on the 1st and the 15th, Europe/Lisbon time."),
        ("15 0 2 1 1 *", "At 02:00:15 on the 1st in January, Europe/Lisbon time."),
        ("*/10 8-18/2 * * *", "Every 10th minute of every 2nd hour from 8 to 18, Europe/Lisbon time."),
        ("30 */5 * * * *", "Second 30 of every 5th minute, Europe/Lisbon time."),
        ("0 0 13 * 5", "At 00:00 on the 13th and also on Friday, Europe/Lisbon time."),
        (
            "0 0 */7 * 1#3",
            "At 00:00 on every 7th day of the month if it is the third Monday of the month, Europe/Lisbon time.",
        ),
        ("0 0 L * *", "At 00:00 on the last day of the month, Europe/Lisbon time."),
        ("0 0 * * FRI#2", "At 00:00 on the second Friday of the month, Europe/Lisbon time."),
        ("0 0 * * 5L", "At 00:00 on the last Friday of the month, Europe/Lisbon time."),
        ("0 0 15W * ?", "At 00:00 on the day from Monday to Friday nearest to the 15th, Europe/Lisbon time."),
        ("5 4 */2 * *", "At 04:05 on every 2nd day of the month, Europe/Lisbon time."),
        ("0 0 1 JAN/3 *", "At 00:00 on the 1st in every 3rd month from January on, Europe/Lisbon time."),
        ("H 3 * * *", "One minute (spread by the job's name) of hour 3, Europe/Lisbon time."),
        ("H(0-29)/10 * * * *", "Every 10th minute from 0 to 29 (spread by the job's name), Europe/Lisbon time."),
        ("CRON_TZ=Asia/Kolkata 0 9 * * *", "At 09:00 every day, Asia/Kolkata time."),
        ("@every 90s", "Every 1 minute and 30 seconds, counted from 1970-01-01 00:00 UTC."),
        ("@every 1h", "Every hour, counted from 1970-01-01 00:00 UTC."),
        ("@every 5h/45m", "Every 5 hours, 45 minutes after, counted from 1970-01-01 00:00 UTC."),
    ],
)
def test_an_expression_in_words(spec: str, sentence: str) -> None:
    assert explain(compile_schedule(spec, zone_name="Europe/Lisbon")) == sentence
