"""The deployment: `docker-compose.yml` and `Dockerfile`, and the same services without containers."""
