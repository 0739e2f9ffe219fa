"""What of the package runs inside Airflow, and alone imports it: every process of Airflow loads the plugin or a DAG.

So nothing that is heavy is imported before it is needed.
"""
