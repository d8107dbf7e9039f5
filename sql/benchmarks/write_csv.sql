COPY {{ rows }} TO {{ path }} (FORMAT csv, HEADER true)
