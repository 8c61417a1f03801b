"""What pip prints, read for how far it is."""

from __future__ import annotations

import re
from pathlib import Path

from engine.core.error_text import shortened
from engine.core.redaction import redact_text
from hbus_console.spark_fetch.progress import Phase

#: As pip prints sizes: thousands, not 1,024s.
_UNITS = {"bytes": 1, "kB": 1_000, "MB": 1_000_000, "GB": 1_000_000_000}
_DOWNLOADING = re.compile(r"\s*Downloading (\S+)(?: \(([\d.]+) (bytes|kB|MB|GB)\))?")
_BUILDING = re.compile(r"\s*Building wheels? for (?:collected packages: )?(\S+)")
#: Of what was downloaded as a source package; half of its building is done here.
_PREPARING = ("Installing build dependencies", "Getting requirements to build", "Preparing metadata")
_INSTALLING = "Installing collected packages:"
_RETRYING = "WARNING: Retrying ("
_ERROR = "ERROR: "
#: Who an index is asked as.
_USER = re.compile(r"(?<=://)[^\s/@]*@")
#: The longest last words that are kept, in characters.
_MOST_SAID = 300


class PipOutput:
    """Fed with each line; not thread-safe."""

    def __init__(self) -> None:
        self.phase = Phase.DOWNLOADING
        self.package = ""
        #: The file that is being downloaded, if any, and its size in bytes, 0 where pip has not said.
        self.file = ""
        self.total = 0
        self._unanswered = False
        self._error = ""
        self._last = ""

    def feed(self, line: str) -> str:
        """One line; returned without credentials, as it may be kept."""
        line = redact_text(_USER.sub("", line.rstrip()))
        if line.strip():
            self._last = line.strip()
        if line.startswith(_ERROR):
            self._error = line.removeprefix(_ERROR)
        elif line.startswith(_RETRYING):
            self._unanswered = True
        elif found := _DOWNLOADING.match(line):
            self.phase, self.file = Phase.DOWNLOADING, Path(found[1]).name
            self.package = self.file.partition("-")[0]
            self.total = round(float(found[2]) * _UNITS[found[3]]) if found[2] else 0
        elif line.startswith("Collecting "):
            self.phase, self.package, self.file, self.total = Phase.DOWNLOADING, "", "", 0
        elif line.lstrip().startswith(_PREPARING):
            self.phase, self.file = Phase.BUILDING, ""
        elif found := _BUILDING.match(line):
            self.phase, self.package, self.file = Phase.BUILDING, found[1].rstrip(","), ""
        elif line.startswith(_INSTALLING):
            self.phase, self.package, self.file = Phase.INSTALLING, "", ""
        return line

    @property
    def last_words(self) -> str:
        """What it failed of, in pip's words."""
        why = self._error or self._last
        if self._unanswered:
            why = f"the network or the package index did not answer; pip's last words: {why}"
        return shortened(why, _MOST_SAID)
