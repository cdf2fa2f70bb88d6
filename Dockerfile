FROM python:3.11-slim
WORKDIR /app
COPY . /app
RUN pip install --no-cache-dir '.[everyday]' && useradd --create-home tellback && install -d -o tellback /data
USER tellback
ENV TELLBACK_MEMORY=/data/memory.db XDG_CONFIG_HOME=/data/config XDG_STATE_HOME=/data/state
VOLUME /data
EXPOSE 8930
ENTRYPOINT ["tellback", "serve", "--host", "0.0.0.0", "--no-browser"]
