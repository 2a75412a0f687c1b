# The emulator in a container:
#
#   docker build --tag sidereal .
#   docker run --publish 8081:8081 sidereal
#
# Clients on the host then use http://localhost:8081/ or https://localhost:8081/. The account is advertised under
# the host that a client called; behind a name of its own (compose.yaml shows one) it is told with --advertise.

FROM rust:1-slim-trixie AS build
WORKDIR /source
COPY . .
RUN cargo build --release --locked --package sidereal-cli

FROM debian:trixie-slim
# A user without a password or a shell; the certificate is all that it writes.
RUN useradd --system --user-group --home-dir /var/lib/sidereal --create-home --shell /usr/sbin/nologin sidereal
COPY --from=build /source/target/release/sidereal /usr/local/bin/sidereal
USER sidereal
VOLUME /var/lib/sidereal
EXPOSE 8081
# SIGTERM lets the requests in flight finish.
STOPSIGNAL SIGTERM
ENTRYPOINT ["sidereal", "emulator", "--address", "0.0.0.0", "--certificate-dir", "/var/lib/sidereal"]
CMD ["--port", "8081"]
