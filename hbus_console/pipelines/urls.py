from __future__ import annotations

from django.urls import path

from hbus_console.pipelines.views import advice, archive, audits, queries, series

app_name = "pipelines"
urlpatterns = [
    path("archive/", archive.archive, name="archive"),
    path("archive/advice/", advice.advice, name="advice"),
    path("archive/query/", queries.query, name="query"),
    path("archive/query/run/", queries.run, name="run-query"),
    path("archive/query/save/", queries.save, name="save-query"),
    path("archive/query/forget/", queries.forget, name="forget-query"),
    path("archive/query/<int:query_id>/cancel/", queries.cancel, name="cancel-query"),
    path("archive/query/<int:query_id>/result.csv", queries.result_csv, name="query-csv"),
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
