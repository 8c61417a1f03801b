"""What topics and groups are called in nsqd and beside it, made here and nowhere else; and what an id tells."""

from __future__ import annotations

import re
from hashlib import blake2b

from engine.core.errors import BadInput
from engine.core.ids import ending

#: nsqd takes no longer name of a topic or channel. It checks a name only after it was sent, by cutting the connection.
LONGEST = 64

_NAME = re.compile(r"[.a-zA-Z0-9_-]+")
#: How long an id of nsqd's is. What is handed out from a copy has more behind it.
ID_LENGTH = 16
_ID = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}(?:\.\d{{1,20}}-\d{{1,20}})?")
#: nsqd's ids count these units of 2^20 ns since its own epoch, above 22 bits of node and sequence.
_EPOCH = 1_288_834_974_288
_UNIT_NS = 1 << 20
#: See ``lua/lease.lua``.
_BAND_MS = 10_000_000_000_000


def checked(name: str, field: str, longest: int = LONGEST) -> str:
    """``name`` if nsqd takes it; raises :class:`BadInput` naming ``field``."""
    if not _NAME.fullmatch(name) or len(name) > longest:
        raise BadInput(
            f"{name!r} cannot be the name of a {field} on NSQ.",
            remedy=f"Use 1 to {longest} of a-z, A-Z, 0-9, dot, dash and underscore.",
            field=field,
        )
    return name


def longest_topic(prefix: str) -> int:
    """How many characters of a topic's name are left beside the installation's prefix."""
    return LONGEST - len(prefix) - 1


def published_ms(message_id: str) -> int:
    """When nsqd took the message with this id, in epoch ms (to about a millisecond)."""
    return ((int(message_id[:ID_LENGTH], 16) >> 22) + _EPOCH) * _UNIT_NS // 1_000_000


def released_score(message_id: str) -> str:
    """The score of a released message: in the order of publishing, before all that is leased or retrying."""
    return f"{published_ms(message_id) - _BAND_MS + (int(message_id[:ID_LENGTH], 16) & 0xFFF) / 5_000:.3f}"


def first_id(epoch_ms: int) -> str:
    """Smaller ids (as text) are of messages that an nsqd took before this millisecond of its clock."""
    return f"{_units(epoch_ms):016x}"


def copy_id(copy: str, index: int) -> str:
    """By what id the message at ``index`` of a copy is handed out: no id of nsqd's, and in the order of theirs."""
    # Two milliseconds may be one unit: the copy's own id keeps them apart.
    return f"{_units(int(copy.partition('-')[0])) | index:016x}.{copy}"


def is_id(text: str) -> bool:
    """Whether it is what a message is handed out by."""
    return _ID.fullmatch(text) is not None


def _units(epoch_ms: int) -> int:
    return max(0, (epoch_ms * 1_000_000 // _UNIT_NS) - _EPOCH) << 22


def digest_of(body: bytes) -> str:
    """What a message of nsqd and its copy beside it are known by to be the same: nsqd tells no id when it takes one."""
    return blake2b(body, digest_size=8).hexdigest()


class TopicNames:
    """One topic: its name in nsqd, and its keys in the store beside."""

    def __init__(self, prefix: str, topic: str) -> None:
        checked(topic, "topic", longest_topic(prefix))
        #: The topic's name in nsqd.
        self.nsq = checked(f"{prefix}.{topic}", "topic")
        # The hash tag keeps a topic on one node of a cluster, so that every script is atomic.
        self._root = f"{prefix}:{{{topic}}}:nsq"
        self.stats = f"{self._root}:stats"
        self.pace = f"{self._root}:pace"
        self.groups = f"{self._root}:groups"
        #: What was published and some group has not gone over yet; and how far each has come: see ``lua/sweep.lua``.
        self.copies = f"{self._root}:copies"
        self.cursors = f"{self._root}:cursors"

    def idempotency(self, key: str) -> str:
        """Where an idempotency key is remembered."""
        return f"{self._root}:idem{ending(key)}"

    @property
    def idempotency_pattern(self) -> str:
        """Matches every idempotency key of the topic, for SCAN."""
        return re.sub(r"([\\*?\[\]^])", r"\\\1", f"{self._root}:idem") + "[:#]*"

    def group(self, group: str) -> GroupNames:
        return GroupNames(self, f"{self._root}:group:{checked(group, 'group')}", group)


class GroupNames:
    """One group: its channel in nsqd, and its keys; ``lua/lease.lua`` says what they hold."""

    def __init__(self, topic: TopicNames, root: str, channel: str) -> None:
        self.topic = topic
        self.channel = channel
        self.state = f"{root}:state"
        held, kept, bodies, tries, stale, twice, dead, done, again = (
            f"{root}:{part}" for part in ("held", "kept", "bodies", "tries", "stale", "twice", "dead", "done", "again")
        )
        self.held = held
        self.kept = kept
        self.twice = twice
        self.dead = dead
        self.turn = f"{root}:turn"
        self.lease = (self.state, held, kept, bodies, tries, stale, twice, again)
        self.settle = (self.state, held, kept, bodies, tries, stale, twice, dead, done)
        self.extend = (held, kept)
        self.park = (self.state, held, kept, bodies, stale, twice, done)
        self.mark = (self.state, stale)
        self.inspect = (self.state, held, kept, dead, topic.stats, topic.pace)
        self.sweep = (
            self.state, held, kept, bodies, tries, stale, done, again, topic.copies, topic.cursors, topic.groups
        )  # fmt: skip
        #: Everything about messages that are not settled: what a group's moving to the end removes.
        self.working = (held, kept, bodies, tries, stale, twice, done, again)
        #: What a group's leaving removes: behind the dead letters, which stay while there are any.
        self.delete = (dead, self.state, *self.working, self.turn)
