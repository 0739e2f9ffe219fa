"""What of the package runs inside Airflow, and alone imports it. Every process of Airflow that reads a DAG loads it."""
