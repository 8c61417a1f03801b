from __future__ import annotations

from django.urls import path

from hbus_console.jobs.pings.code import PATH
from hbus_console.jobs.views import calendars, forms, job, lists, nodes, pings, runs, series, simulation, tags

app_name = "jobs"
_ONE = "jobs/<str:job>"
_RUN = f"{_ONE}/runs/<int:run_id>"
urlpatterns = [
    path("jobs/", lists.jobs, name="list"),
    path("jobs/new/", forms.new, name="new"),
    path("jobs/preview/", forms.preview, name="preview"),
    path("jobs/simulation/", simulation.simulation, name="simulation"),
    path("jobs/tags/", tags.tags, name="tags"),
    path("jobs/tags/<str:tag>/limit/", tags.limit, name="limit"),
    path("jobs/calendars/", calendars.calendars, name="calendars"),
    path("jobs/calendars/new/", calendars.new, name="new-calendar"),
    path("jobs/calendars/<str:calendar>/", calendars.calendar, name="calendar"),
    path("jobs/calendars/<str:calendar>/delete/", calendars.delete, name="calendar-delete"),
    path("jobs/nodes/", nodes.nodes, name="nodes"),
    path("runs/", lists.runs, name="runs"),
    path(f"{_ONE}/", job.detail, name="detail"),
    path(f"{_ONE}/settings/", forms.settings, name="settings"),
    path(f"{_ONE}/versions/", job.versions, name="versions"),
    path(f"{_ONE}/versions/<int:version>/restore/", job.restore, name="restore"),
    path(f"{_ONE}/history/", series.history, name="history"),
    path(f"{_ONE}/history/chart/", series.chart, name="history-chart"),
    path(f"{_ONE}/trigger/", runs.trigger_job, name="trigger"),
    path(f"{_ONE}/trigger/dry-run/", runs.foresee_trigger, name="foresee"),
    path(f"{_ONE}/pause/", job.pause, name="pause"),
    path(f"{_ONE}/resume/", job.resume, name="resume"),
    path(f"{_ONE}/delete/", job.delete, name="delete"),
    path(f"{_RUN}/", runs.run, name="run"),
    path(f"{_RUN}/log/", runs.log, name="log"),
    path(f"{_RUN}/cancel/", runs.cancel, name="cancel"),
    path(f"{_RUN}/release/", nodes.release, name="release"),
    path(f"{_ONE}/ping/", pings.address, name="ping"),
    path(f"{_ONE}/ping/renew/", pings.renew, name="ping-renew"),
    path(f"{PATH}/<str:code>", pings.ping, name="pinged"),
    path(f"{PATH}/<str:code>/", pings.ping),
    path(f"{PATH}/<str:code>/<str:what>", pings.ping, name="pinged-with"),
]
