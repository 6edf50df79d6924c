"""The configurations of `infra/nats`, on real servers."""
