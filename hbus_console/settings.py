"""Settings of the console, all from the environment; see docs/operations.md for the list."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import dj_database_url

from engine.core.env import Env
from engine.core.errors import ConfigurationError
from hbus_console import installed, remembered
from hbus_console.proxies import trusted_proxies
from hbus_console.state import ROOT, secret, state_dir
from hbus_console.stores import broker_of, job_broker, named_stores

env = Env()
STATE = state_dir()

DEBUG = False
SECRET_KEY = env.text("HBUS_SECRET_KEY") or secret("django")
#: Keyed hash of the audit chain; kept outside the database on purpose.
AUDIT_KEY = env.text("HBUS_AUDIT_KEY") or secret("audit")
ENVIRONMENT_NAME = env.text("HBUS_ENVIRONMENT", "local")
BIND = env.text("BIND", "127.0.0.1")
PORT = env.integer("PORT", 8000, least=1, most=65_535)
ALLOWED_HOSTS = list(env.words("HBUS_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]"))
CSRF_TRUSTED_ORIGINS = list(env.words("HBUS_TRUSTED_ORIGINS"))
HTTPS = env.flag("HBUS_HTTPS")
#: Whose X-Forwarded-For and X-Forwarded-Proto are believed.
TRUSTED_PROXIES = trusted_proxies(env.words("HBUS_TRUSTED_PROXIES"))
#: What links in messages to people and programs begin with: where a browser finds this console.
PUBLIC_URL = env.text("HBUS_PUBLIC_URL", f"http://localhost:{PORT}").rstrip("/")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.staticfiles",
    "django.contrib.humanize",
    "django_htmx",
    "rest_framework",
    "drf_spectacular",
    *installed.apps(),
    # Below the cluster's, which says where it counts.
    "django_prometheus",
]

MIDDLEWARE = [
    "django_prometheus.middleware.PrometheusBeforeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "servestatic.middleware.ServeStaticMiddleware",
    "hbus_console.access.middleware.PrivateMiddleware",
    "hbus_console.ui.middleware.ContentSecurityPolicyMiddleware",
    "hbus_console.ui.middleware.PageTimeMiddleware",
    "hbus_console.access.middleware.RequestContextMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    # Below what tells the length of an answer.
    "hbus_console.ui.control_characters.ControlCharactersMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "hbus_console.accounts.middleware.ActorMiddleware",
    "hbus_console.quotas.requests.QuotaMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "hbus_console.api.form_posts.FormPostMiddleware",
    "django_prometheus.middleware.PrometheusAfterMiddleware",
]

#: Those that say something on every answer, also on one that is given before the application is asked.
HEADER_MIDDLEWARE = [
    "django.middleware.security.SecurityMiddleware",
    "hbus_console.access.middleware.PrivateMiddleware",
    "hbus_console.ui.middleware.ContentSecurityPolicyMiddleware",
    "hbus_console.access.middleware.RequestContextMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "hbus_console.urls"
ASGI_APPLICATION = "hbus_console.asgi.application"

TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [ROOT / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "hbus_console.ui.context.layout",
            ],
            "builtins": ["hbus_console.ui.templatetags.hbus", "hbus_console.ui.templatetags.dialogs"],
        },
    }
]

# IMMEDIATE takes the write lock at BEGIN, so that two read-then-write transactions queue instead of failing;
# research measured 334 of 1,800 failing with the defaults and none with these.
SQLITE_OPTIONS = {
    "transaction_mode": "IMMEDIATE",
    "timeout": 20,
    "init_command": "PRAGMA journal_mode=WAL;PRAGMA synchronous=NORMAL;PRAGMA busy_timeout=20000;"
    "PRAGMA temp_store=MEMORY;PRAGMA cache_size=-16000;",
}


def _database(url: str, file_name: str) -> dict[str, Any]:
    try:
        parsed: dict[str, Any] = dict(dj_database_url.parse(url or f"sqlite:///{STATE / file_name}"))
    except ValueError as error:
        raise ConfigurationError(
            "DATABASE_URL is not an address of a database.",
            remedy="Write postgresql://user:password@host:5432/name.",
            field="DATABASE_URL",
        ) from error
    if parsed["ENGINE"].endswith("sqlite3"):
        parsed["OPTIONS"] = {**SQLITE_OPTIONS}
    if parsed["ENGINE"].endswith("postgresql"):
        parsed["OPTIONS"] = {"connect_timeout": 5, **parsed.get("OPTIONS", {})}
    # django-prometheus wraps the same backends and counts queries and errors.
    parsed["ENGINE"] = parsed["ENGINE"].replace("django.db.backends", "django_prometheus.db.backends")
    return parsed


_database_url = env.text("DATABASE_URL")
# The ledger is written in bulk all the time; on SQLite a file of its own keeps it from queueing with people's acts.
DATABASES = {
    "default": _database(_database_url, "hbus.sqlite3"),
    "ledger": _database(env.text("LEDGER_DATABASE_URL", _database_url), "ledger.sqlite3"),
}
#: Both aliases lead to one database, as with a DATABASE_URL alone; then it holds one record of migrations.
ONE_DATABASE = all(DATABASES["default"][it] == DATABASES["ledger"][it] for it in ("ENGINE", "HOST", "PORT", "NAME"))
DATABASE_ROUTERS = ["hbus_console.evidence.router.LedgerRouter"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

CSRF_FAILURE_VIEW = "hbus_console.access.web.csrf_failed"
AUTH_USER_MODEL = "accounts.User"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.Argon2PasswordHasher"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "hbus_console.accounts.password_rules.NotOneselfRepeated"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 12}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "accounts:login"
LOGIN_REDIRECT_URL = "overview:overview"
LOGOUT_REDIRECT_URL = "accounts:login"
SESSION_COOKIE_AGE = int(timedelta(hours=12).total_seconds())
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SECURE = HTTPS
CSRF_COOKIE_SECURE = HTTPS
SESSION_COOKIE_NAME = f"hbus_session_{PORT}"
CSRF_COOKIE_NAME = f"hbus_csrf_{PORT}"
DEVICE_COOKIE_NAME = f"hbus_device_{PORT}"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_HSTS_SECONDS = 31_536_000 if HTTPS else 0
X_FRAME_OPTIONS = "DENY"

LANGUAGE_CODE = "en"
TIME_ZONE = env.text("HBUS_TIME_ZONE", "UTC")
USE_TZ = True
USE_I18N = False
USE_THOUSAND_SEPARATOR = False

STATIC_URL = "/static/"
STATIC_ROOT = STATE / "static"
# npm fills this folder from the lock file; see `make assets`.
STATICFILES_DIRS = [
    ROOT / "hbus_console" / "ui" / "assets",
    ("vendor/uplot", ROOT / "node_modules" / "uplot" / "dist"),
]
# Django would open what it collects to everybody.
FILE_UPLOAD_PERMISSIONS = 0o600
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "servestatic.storage.CompressedManifestStaticFilesStorage"},
}

#: The store: one server, Sentinels, or a cluster. Not set: the embedded Valkey of this installation, where it was last
#: started.
REDIS_URL = env.text("REDIS_URL") or remembered.store_url(STATE)
#: Further stores for busy topics, by name: a topic on `redis_stream@busy` lies in the one called busy.
HBUS_STORES = named_stores(env.text("HBUS_STORES"))
HBUS_TRANSPORT = env.text("HBUS_TRANSPORT", "redis_stream")
#: Where a transport of another package has its store; handed to it unread. Not set: the store.
HBUS_TRANSPORT_URL = env.text("HBUS_TRANSPORT_URL")
#: The nsqds that topics on NSQ publish to, by their HTTP addresses, and nsqlookupds that know of nsqds. Neither set:
#: the embedded nsqd of this installation, where it was last started.
NSQD_URL = env.words("NSQD_URL")
NSQLOOKUPD_URL = env.words("NSQLOOKUPD_URL")
if not NSQD_URL and not NSQLOOKUPD_URL:
    NSQD_URL = remembered.nsqd_urls(STATE)
#: What those nsqds take at most: their --max-msg-size, in bytes.
NSQD_MAX_BYTES = env.integer("NSQD_MAX_BYTES", 1024 * 1024, least=1024, most=64 * 1024 * 1024)
#: From when on a message has a copy beside nsqd until it is settled: "from_publish", or "never".
NSQ_KEEP = env.text("NSQ_KEEP", "from_publish")
#: First part of every key in the store.
HBUS_PREFIX = env.text("HBUS_PREFIX", "hbus")
#: Who this installation's own publishes say they are from.
HBUS_SOURCE = env.text("HBUS_SOURCE", "/hbus/console")
#: This host's stable name among consumers.
HBUS_NODE = env.text("HBUS_NODE")
#: The topics whose subscriptions this process hosts, `booking.*` or exact names; none: those of every topic.
HBUS_CONSUME_TOPICS = env.words("HBUS_CONSUME_TOPICS")
#: Webhooks may call loopback, private and link-local addresses. Off: they are refused when saved and when called.
HBUS_WEBHOOK_PRIVATE = env.flag("HBUS_WEBHOOK_PRIVATE")
# Programs that jobs may run, as the first word of their line; none unless somebody names it.
HBUS_JOB_COMMANDS = env.words("HBUS_JOB_COMMANDS")
# The folder of the Spark applications that jobs may run, none unless somebody names it; and where these run.
HBUS_SPARK_APPS = env.text("HBUS_SPARK_APPS")
HBUS_SPARK_MASTER = env.text("HBUS_SPARK_MASTER") or "local[2]"
# Where jobs send tasks of Celery to; nowhere unless somebody names it.
HBUS_JOB_BROKER = job_broker(env.text("HBUS_JOB_BROKER"))
# The folder of the archive, which every process that archives or reads it shares; in the state folder unless named.
HBUS_LAKE = env.text("HBUS_LAKE")
# Each run of the archive brings Delta tables over the lake's files up to date.
HBUS_DELTA = env.flag("HBUS_DELTA")
# How long runs and their logs are kept, and how many at most; the last 50 of each job are kept in any case.
HBUS_RUN_DAYS = env.integer("HBUS_RUN_DAYS", 90, least=1, most=36_500)
HBUS_RUN_MAX = env.integer("HBUS_RUN_MAX", 1_000_000, least=1_000, most=1_000_000_000)
# How long audits of the archive are kept.
HBUS_AUDIT_DAYS = env.integer("HBUS_AUDIT_DAYS", 400, least=1, most=36_500)
# How long queries of the archive and their results are kept.
HBUS_QUERY_DAYS = env.integer("HBUS_QUERY_DAYS", 7, least=1, most=400)
# How many days of series by the minute and by the hour are kept, the present one among them; those by the day stay.
HBUS_SERIES_MINUTE_DAYS = env.integer("HBUS_SERIES_MINUTE_DAYS", 2, least=1, most=90)
HBUS_SERIES_HOUR_DAYS = env.integer("HBUS_SERIES_HOUR_DAYS", 90, least=1, most=3_650)
# How long versions of the quota policies are kept, no shorter than what was used; the newest 100 are in any case.
HBUS_QUOTA_VERSION_DAYS = env.integer("HBUS_QUOTA_VERSION_DAYS", 365, least=14, most=36_500)
# Runs that one jobs process does at the same time, each in a process of its own.
HBUS_JOB_SLOTS = env.integer("HBUS_JOB_SLOTS", 2, least=1, most=256)
#: How long a role drains once it was told to stop; the supervisor sets it shorter.
HBUS_GRACE_S = env.integer("HBUS_GRACE_S", 25, least=1, most=3600)
#: A node of the role cron whose clock is further than this from the store's decides nothing; 0: it does all the same.
HBUS_CRON_CLOCK_S = env.integer("HBUS_CRON_CLOCK_S", 60, least=0, most=86_400)
#: A node whose clock is surely further than this from the store's is marked.
CLOCK_ALARM_MS = env.integer("HBUS_CLOCK_ALARM_MS", 1_000, least=10, most=3_600_000)
#: Names of consumers that have asked for nothing for so many hours, and have nothing pending, leave their group.
FORGET_CONSUMERS_H = env.integer("HBUS_FORGET_CONSUMERS_H", 24, least=1, most=8_760)
#: Whether processes keep to the quota policies; what each request costs by its route, the first pattern that fits, else
#: 1; and in which form of the draft answers speak of limits. Signing in, and changing a limit, must stay possible.
HBUS_QUOTAS = env.flag("HBUS_QUOTAS", True)
_UNLIMITED = {
    "accounts:*": 0,
    # To play a trial is work, and loosens nothing.
    "quotas:try*": 1,
    "quotas:*": 0,
    **dict.fromkeys(("v1:quota-polic*", "v1:quota-book*", "v1:quota-plan*"), 0),
}
HBUS_QUOTA_COSTS = {**_UNLIMITED, **env.counts("HBUS_QUOTA_COSTS"), **_UNLIMITED}
#: Tokens of one person that may be used at a time.
HBUS_TOKENS_PER_PERSON = env.integer("HBUS_TOKENS_PER_PERSON", 50, least=1, most=10_000)
HBUS_RATELIMIT_HEADERS = env.choice("HBUS_RATELIMIT_HEADERS", "draft-10", ("draft-10", "reviewed", "off"))
#: Evidence: facts off only for measurements; the ledger keeps at most so many messages, and of engines without a
#: ledger of their own at most so many facts.
HBUS_FACTS = env.flag("HBUS_FACTS", True)
HBUS_LEDGER = env.flag("HBUS_LEDGER", True)
LEDGER_MAX_MESSAGES = env.integer("HBUS_LEDGER_MAX_MESSAGES", 1_000_000, least=1_000, most=1_000_000_000)
EVIDENCE_MAX_FACTS = env.integer("HBUS_EVIDENCE_MAX_FACTS", 1_000_000, least=1_000, most=1_000_000_000)
#: Seconds for which the charts' history is served again before the ledger is asked anew; 0: never served again.
HISTORY_FRESH_S = env.integer("HBUS_HISTORY_FRESH_S", 10, least=0, most=300)
#: A subscription that holds so many dead letters calls for a person; none is ever removed for it. 0: no limit.
DEAD_LETTER_LIMIT = env.integer("HBUS_DEAD_LETTER_LIMIT", 10_000, least=0, most=100_000_000)

#: The mail server of alerts; without a host none is sent, and an e-mail channel is refused.
EMAIL_HOST = env.text("EMAIL_HOST")
EMAIL_PORT = env.integer("EMAIL_PORT", 25, least=1, most=65_535)
EMAIL_HOST_USER = env.text("EMAIL_HOST_USER")
EMAIL_HOST_PASSWORD = env.text("EMAIL_HOST_PASSWORD")
EMAIL_USE_TLS = env.flag("EMAIL_USE_TLS")
EMAIL_USE_SSL = env.flag("EMAIL_USE_SSL")
#: Bounds connecting and speaking to it all in all, in seconds.
EMAIL_TIMEOUT = 30
EMAIL_BACKEND = "hbus_console.mail.TimedBackend"
DEFAULT_FROM_EMAIL = env.text("EMAIL_FROM", "hbus@localhost")

#: The largest request body, in bytes: a batch of publishes. See hbus_console.body_limit.
DATA_UPLOAD_MAX_MEMORY_SIZE = 16 * 1024 * 1024
#: What of it is taken of anybody; more of who is signed in and may do more than look.
BODY_OF_ANYBODY = 64 * 1024
#: Seconds for a request's head to come, and then for its body. See hbus_console.supervisor.punctual.
REQUEST_HEAD_S = env.integer("HBUS_REQUEST_HEAD_S", 20, least=1, most=3600)
REQUEST_BODY_S = env.integer("HBUS_REQUEST_BODY_S", 120, least=1, most=3600)

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "hbus_console.accounts.authentication.TokenAuthentication",
        "hbus_console.accounts.authentication.ConsoleSessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["hbus_console.accounts.authentication.SignedIn"],
    "DEFAULT_THROTTLE_CLASSES": ["hbus_console.quotas.requests.QuotaThrottle"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_PARSER_CLASSES": ["hbus_console.api.parsing.JsonBody"],
    "DEFAULT_PAGINATION_CLASS": "hbus_console.api.pagination.CursorPages",
    "DEFAULT_SCHEMA_CLASS": "hbus_console.api.openapi.ToldWhole",
    "DEFAULT_VERSIONING_CLASS": "rest_framework.versioning.NamespaceVersioning",
    # What a command that writes the document takes when nobody names one.
    "DEFAULT_VERSION": "v1",
    "EXCEPTION_HANDLER": "hbus_console.api.problems.handle",
    "UNAUTHENTICATED_USER": None,
    "PAGE_SIZE": 50,
    "TEST_REQUEST_DEFAULT_FORMAT": "json",
}
SPECTACULAR_SETTINGS = {
    "TITLE": "hbus",
    "VERSION": "1.0.0",
    "OAS_VERSION": "3.1.1",
    "SERVE_INCLUDE_SCHEMA": False,
    # What the base of all endpoints says of itself is no description of any.
    "GET_LIB_DOC_EXCLUDES": "hbus_console.api.openapi.undescribing",
    "SCHEMA_PATH_PREFIX": "/api/v1",
    "COMPONENT_SPLIT_REQUEST": True,
    # Where the document came from; the paths in it are whole.
    "SERVERS": [{"url": "/", "description": "This console"}],
    "POSTPROCESSING_HOOKS": ["hbus_console.api.openapi.refusals"],
}

# Celery carries control (pause, resume, drain, report) and, later, jobs; never the bus's own messages.
_broker = broker_of(REDIS_URL, env.text("BROKER_URL"))
CELERY_BROKER_URL = _broker.url
CELERY_BROKER_TRANSPORT = _broker.reading
CELERY_BROKER_USE_SSL = _broker.use_ssl
CELERY_BROKER_TRANSPORT_OPTIONS = {
    "global_keyprefix": f"{HBUS_PREFIX}:celery:",
    "visibility_timeout": 43_200,
    **_broker.options,
}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A store that refuses writes (full disk) answers the broker's commands with an error: wait, as for one that is away.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_IGNORE_RESULT = True
CELERY_WORKER_REDIRECT_STDOUTS = False
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_SEND_TASK_EVENTS = False

LOGGING_CONFIG = "hbus_console.log_setup.configure"
# Django calls the function above only when this is not empty.
LOGGING = {"version": 1}
LOG_LEVEL = env.text("HBUS_LOG_LEVEL", "INFO")
#: Which facts become log lines: ``matter`` (failures and acts) or ``all``.
LOG_FACTS = env.text("HBUS_LOG_FACTS", "matter")
PROMETHEUS_MULTIPROC_DIR = STATE / "metrics"
