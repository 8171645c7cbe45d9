translate(
    translate(
        replace(replace(lower({}::text), 'c++', 'cplusplus'), 'c#', 'csharp'),
        'àáâãäåçèéêëìíîïñòóôõöùúûüýÿāăąćĉċčďēĕėęěĝğġģĥĩīĭįĳĵķĺļľŀńņňōŏőŕŗřśŝşšţťũūŭůűųŵŷźżž',
        'aaaaaaceeeeiiiinooooouuuuyyaaaccccdeeeeegggghiiiiijkllllnnnooorrrssssttuuuuuuwyzzz'
    ),
    '<>/@.-_', '       '
)
