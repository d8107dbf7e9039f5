SELECT $text AS {{ column | id }}
