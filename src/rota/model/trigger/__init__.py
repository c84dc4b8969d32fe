"""When schedules fire: rules, zones, calendars, and the decisions around a fire. Pure: values in, values out.

    rules        kinds of rules: cron, every, RRULE, single times
    cron         the readings that match five or six fields;  cron_text: their grammar;  spread: the value of `H`
    recurrence   RRULE, as readings;  recurrence_text: its grammar;  recurrence_dates: its days
    clock_times  times of day made of hours, minutes and seconds
    effort       a bound on the search for a fire, in steps
    zones        a time zone as stretches of constant offset
    wall         local readings to instants: gaps, folds, elapsed time
    calendars    dates to exclude or require;  ics: dates of an .ics text
    crontab      entries of a crontab, and reasons for refused lines
    schedule     a rule with its zone, bounds and policies
    fires        the instants a schedule fires at
    catchup      fires to make and to skip after downtime;  skipped: records of skipped fires
    overlap      the fate of a fire while the previous one still lives
    identity     ids of fires;  arguments: `{fire_time}` filled in;  template: the order of a fire
    records      schedules and fires as stores keep them;  plan: the next step of a schedule

There are two notions of time. An *instant* counts microseconds since 1970 in UTC, as in the rest of rota. A *reading*
is the time that a wall clock shows, in whole seconds since 1970-01-01T00:00 of that clock. It has no zone, may happen
twice or never, and is plain arithmetic.
"""
