"""One cluster's records in one DynamoDB table: lease, state, history, deliveries."""
