# The image of the Spark jobs: the broker's image, Java and Spark. From the root of the project:
#     docker build -f docker/spark.Dockerfile -t odradek-spark .
# ODRADEK is the broker's image; Java is installed unless that has it already.
ARG ODRADEK=odradek

FROM ${ODRADEK} AS build
ARG PIP_ARGS=""
USER root
WORKDIR /src
COPY . .
# The broker's environment has no pip: one from outside installs into it.
RUN python3 -m venv /tmp/installer \
    && /tmp/installer/bin/pip --python /opt/odradek/bin/python install --no-cache-dir \
        --disable-pip-version-check --requirement requirements/spark.lock ${PIP_ARGS}

FROM ${ODRADEK}
USER root
RUN command -v java || { \
        apt-get update \
        && apt-get install -y --no-install-recommends openjdk-17-jre-headless \
        && rm -rf /var/lib/apt/lists/*; }
COPY --from=build /opt/odradek /opt/odradek
ENV PYSPARK_PYTHON=/opt/odradek/bin/python3 SPARK_LOCAL_DIRS=/tmp
USER appuser
CMD ["odradek", "spark", "--help"]
