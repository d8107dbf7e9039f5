SELECT {{ column | id }} FROM {{ table }}
