"""Settings of the test run: the console's own, on a state folder and a Valkey that belong to this process alone."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path

STATE_DIR = Path(tempfile.mkdtemp(prefix="hbus-test-"))
os.environ["STATE"] = str(STATE_DIR)
(STATE_DIR / "static").mkdir()
os.environ["SPARK_CONF_DIR"] = str(Path(__file__).with_name("spark_conf"))

from hbus_console.supervisor.standalone import StandaloneStore  # noqa: E402

if os.environ.get("HBUS_TEST_DATABASE") == "postgresql":
    from tests.postgres import RealPostgres, find_binaries

    # Not below STATE_DIR: that is this account's alone, and the server may have to run as another.
    _folder = Path(tempfile.mkdtemp(prefix="hbus-test-postgres-"))
    _folder.chmod(0o755)
    _binaries = find_binaries()
    if _binaries is None:
        raise SystemExit("HBUS_TEST_DATABASE=postgresql, and PostgreSQL's server is not installed.")
    _server = RealPostgres(_folder / "server", _binaries).start()
    os.environ["DATABASE_URL"] = _server.url
    atexit.register(shutil.rmtree, _folder, ignore_errors=True)
    atexit.register(_server.stop)

STORE = StandaloneStore(STATE_DIR / "store").start()
os.environ["REDIS_URL"] = STORE.url


@atexit.register
def _clean() -> None:
    STORE.kill()
    shutil.rmtree(STATE_DIR, ignore_errors=True)


from hbus_console.settings import *  # noqa: E402, F403

# As manage.py does for the commands that measure.
INSTALLED_APPS = [*INSTALLED_APPS, "hbus_console.bench"]  # noqa: F405

HISTORY_FRESH_S = 0
# Who tests quotas opens the door; threads of every other test's process would ask for its database.
HBUS_QUOTAS = False
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
}

# It is asynchronous alone, which under Django's synchronous test client sends each request through five threads. The
# tests of a running console have it.
MIDDLEWARE = [name for name in MIDDLEWARE if not name.startswith("servestatic.")]  # noqa: F405

# pytest-django knows SQLite by Django's own backend, not by the counting one, and would name files for its workers.
for _database in DATABASES.values():  # noqa: F405
    if _database["ENGINE"].endswith("sqlite3"):
        _database["TEST"] = {"NAME": ":memory:"}
