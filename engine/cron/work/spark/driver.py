"""The program that spark-submit is given: runs an application as Python itself would, and tells how far it is.

``driver.py PIPE APPLICATION ARGUMENT…``: PIPE is one with a name, for Java hands on no descriptor to what it starts.
"""

from engine.cron.work.spark.as_main import main

main()
