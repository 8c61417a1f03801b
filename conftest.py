"""At the root, so that ``pytest --hbus-transport my.module:factory`` is known wherever it is run in this checkout."""

pytest_plugins = [
    "engine.bus.conformance.plugin", "tests.owed", "tests.skips", "tests.touching", "tests.nsq",
    "tests.parameter_names", "tests.order", "tests.form",
]  # fmt: skip
