"""When schedules fire: rules, zones, calendars, and the decisions around a fire. Pure: values in, values out.

    rules        what a schedule may say: cron, every, RRULE, single times
    cron         the readings that match five or six fields;  cron_text: their grammar;  spread: what `H` becomes
    recurrence   RRULE, as readings;  recurrence_text: its grammar;  recurrence_dates: the days it leaves
    clock_times  times of day made of hours, minutes and seconds
    effort       a bound on the search for a fire, in steps
    zones        a time zone as stretches of constant offset
    wall         local readings to instants: gaps, folds, elapsed time
    calendars    dates to leave out or to keep to;  ics: read out of an .ics text
    crontab      read out of a crontab: its entries, and why not the rest
    schedule     a rule with its zone, bounds and policies
    fires        the instants a schedule fires at
    catchup      what to make and what to skip after downtime;  skipped: what is said of the latter
    overlap      what to do while the previous fire still lives
    identity     ids of fires;  arguments: `{fire_time}` filled in;  template: the order of a fire
    standing     schedules and fires as stores keep them;  plan: the next step of one

Two notions of time meet here. An *instant* is what the rest of rota uses: microseconds since 1970 in UTC. A *reading*
is what a clock on a wall shows, as whole seconds since 1970-01-01T00:00 of that very wall: it knows no zone, may happen
twice or never, and is plain arithmetic.
"""
