SELECT {{ columns | ids }} FROM {{ table }}
