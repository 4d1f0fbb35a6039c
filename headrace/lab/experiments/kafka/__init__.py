"""Messages a second through Kafka, and the broker that measurements and tests start."""
