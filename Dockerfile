# nodefleet run --loop in a container: for those who want no Lambda. Kubernetes: infra/examples/kubernetes.yaml.
#
#   docker build -t node-fleet:0.2.0 .
#   docker run --read-only --tmpfs /tmp -e NODEFLEET_CLUSTER=… -e NODEFLEET_TABLE=… -e AWS_REGION=… node-fleet:0.2.0
#
# Python packages are installed by hash (requirements-run.txt). Pin the base image in your own build, by the digest that
# your registry shows: --build-arg PYTHON_IMAGE=python:3.13-slim@sha256:…
ARG PYTHON_IMAGE=python:3.13-slim

FROM ${PYTHON_IMAGE} AS build
WORKDIR /src
RUN python -m venv /opt/node-fleet
COPY requirements-run.txt ./
RUN /opt/node-fleet/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --no-deps -r requirements-run.txt
COPY pyproject.toml README.md LICENSE ./
COPY lambda/nodefleet lambda/nodefleet
COPY tools/nodefleet_tools tools/nodefleet_tools
COPY infra/nodefleet_infra infra/nodefleet_infra
RUN /opt/node-fleet/bin/pip install --no-cache-dir --disable-pip-version-check --no-deps --no-build-isolation --no-index . \
 && /opt/node-fleet/bin/pip uninstall -y --quiet setuptools pip \
 && python -m compileall -q /opt/node-fleet

FROM ${PYTHON_IMAGE}
# Nothing in the image needs to be written: run it with a read-only root and a tmpfs on /tmp for the heartbeat.
COPY --from=build --chown=0:0 /opt/node-fleet /opt/node-fleet
ENV PATH=/opt/node-fleet/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    HOME=/tmp
USER 65532:65532
# A run may take two minutes and the next one comes after two: five without one are an outage.
HEALTHCHECK --interval=60s --timeout=10s --start-period=300s --retries=2 \
    CMD ["nodefleet", "health", "--file", "/tmp/heartbeat", "--within", "300"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["nodefleet"]
CMD ["run", "--loop", "--heartbeat", "/tmp/heartbeat"]
