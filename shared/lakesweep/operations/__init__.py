"""Operations by name, one module each: arguments to facts to plan. Every edge calls them from here."""
