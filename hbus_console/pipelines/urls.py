from __future__ import annotations

from django.urls import path

from hbus_console.pipelines.views import advice, archive, audits, series

app_name = "pipelines"
urlpatterns = [
    path("archive/", archive.archive, name="archive"),
    path("archive/advice/", advice.advice, name="advice"),
    path("archive/<str:topic>/start/", archive.start, name="start"),
    path("archive/<str:topic>/stop/", archive.stop, name="stop"),
    path("archive/<str:topic>/keep/", archive.keep_topic, name="keep"),
    path("audits/", audits.audits, name="audits"),
    path("audits/run/", audits.run, name="run-audit"),
    path("audits/<int:audit_id>/", audits.audit, name="audit"),
    path("audits/<int:audit_id>/findings/", audits.findings, name="findings"),
    path("audits/<int:audit_id>/compare/", audits.compared, name="compare"),
    path("audits/<int:audit_id>/audit.<str:form>", audits.export, name="export"),
    path("topics/<str:topic>/history/", series.history, name="history"),
    path("topics/<str:topic>/history/chart/", series.chart, name="history-chart"),
]
