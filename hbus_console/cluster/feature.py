"""What runs, and on what it stands."""

from __future__ import annotations

from hbus_console.access.acts import Act, Role
from hbus_console.registry.declaration import Feature, MenuEntry, Mount

CLUSTER_VIEW = Act("cluster.view", Role.VIEWER, "look at the cluster", reading=True)
#: As much as it takes to reveal: what all of it weighs tells of any message how large it is.
CLUSTER_WEIGH = Act("cluster.weigh", Role.GOVERNOR, "see what the store and the databases weigh")
CLUSTER_OPERATE = Act("cluster.operate", Role.ADMIN, "operate the cluster")

FEATURE = Feature(
    name="cluster",
    menu=(
        MenuEntry("cluster", "Cluster", "outline/layout-grid", "cluster:overview", "c", "System", 10, act=CLUSTER_VIEW),
    ),
    pages=(Mount("cluster/", "hbus_console.cluster.urls"),),
    api=("hbus_console.cluster.api",),
    acts=(
        CLUSTER_VIEW,
        CLUSTER_WEIGH,
        CLUSTER_OPERATE,
    ),
    concerns=("hbus_console.cluster.concerns:concerns",),
    live=("hbus_console.cluster.live:cells",),
)
