-- The whole number from -M to M that is nearest to a number between the bounds of its variable, halves away from 0.
greatest(-{{ scale.steps }}, least({{ scale.steps }}, sign(measured[{{ place }}])
    * ((2 * abs(measured[{{ place }}]) * {{ scale.steps }} + {{ scale.span }}) // (2 * {{ scale.span }}::HUGEINT))))
