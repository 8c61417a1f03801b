"""Addresses under /api/v1/."""

from __future__ import annotations

from django.urls import path

from hbus_console.jobs.api import calendars, jobs, pings, runs, series, tags

urlpatterns = [
    path("jobs", jobs.Jobs.as_view(), name="jobs"),
    path("jobs/<str:job>", jobs.OneJob.as_view(), name="job"),
    path("jobs/<str:job>/pause", jobs.PauseJob.as_view(), name="job-pause"),
    path("jobs/<str:job>/resume", jobs.ResumeJob.as_view(), name="job-resume"),
    path("jobs/<str:job>/versions", jobs.Versions.as_view(), name="job-versions"),
    path("jobs/<str:job>/versions/<int:version>/restore", jobs.Restore.as_view(), name="job-restore"),
    path("jobs/<str:job>/slots", jobs.NextSlots.as_view(), name="job-slots"),
    path("jobs/<str:job>/series", series.SeriesOfJob.as_view(), name="job-series"),
    path("jobs/<str:job>/trigger", runs.TriggerJob.as_view(), name="job-trigger"),
    path("jobs/<str:job>/trigger/dry-run", runs.ForeseeTrigger.as_view(), name="job-trigger-dry-run"),
    path("jobs/<str:job>/runs", runs.RunsOfJob.as_view(), name="job-runs"),
    path("jobs/<str:job>/runs/<int:run_id>", runs.OneRun.as_view(), name="job-run"),
    path("jobs/<str:job>/runs/<int:run_id>/attempts", runs.AttemptsOfRun.as_view(), name="job-run-attempts"),
    path("jobs/<str:job>/runs/<int:run_id>/log", runs.LogOfRun.as_view(), name="job-run-log"),
    path("jobs/<str:job>/runs/<int:run_id>/cancel", runs.CancelRun.as_view(), name="job-run-cancel"),
    path("jobs/<str:job>/runs/<int:run_id>/release", runs.ReleaseLease.as_view(), name="job-run-release"),
    path("jobs/<str:job>/ping", pings.PingAddressOfJob.as_view(), name="job-ping"),
    path("jobs/<str:job>/ping/renew", pings.RenewPing.as_view(), name="job-ping-renew"),
    path("job-calendars", calendars.Calendars.as_view(), name="job-calendars"),
    path("job-calendars/<str:calendar>", calendars.OneCalendar.as_view(), name="job-calendar"),
    path("job-tags", tags.Tags.as_view(), name="job-tags"),
    path("job-tags/<str:tag>", tags.OneTag.as_view(), name="job-tag"),
    path("runs", runs.Runs.as_view(), name="runs"),
]
