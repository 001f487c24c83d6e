# Binade on a system without Debian 12: docker build -t binade . &&
# docker run --rm binade ./check
FROM debian:12
WORKDIR /binade
COPY utils/setup.sh utils/setup.sh
COPY python/requirements.txt python/requirements.txt
RUN utils/setup.sh && rm -rf /var/lib/apt/lists/*
COPY . .
RUN cmake --preset release && cmake --build build/release
ENV PATH=/binade/build/release/bin:$PATH
