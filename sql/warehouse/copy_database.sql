COPY FROM DATABASE {{ zone }} TO {{ copy }}
