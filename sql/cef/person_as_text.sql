-- A person as one text: a sequence of length-prefixed values, so that different persons never have the same text.
concat(
    '|'
    {% for variable in person_variables %}
    , coalesce(strlen({{ variable | id }}::VARCHAR) || ':' || {{ variable | id }}::VARCHAR, '-')
    {% endfor %}
)
