-- KEYS: heap. ARGV: until, limit. Returns {epoch, time of the first entry that is not among the due or '', {job, time,
-- ...}}.
local heap = KEYS[1]
local due = redis.call('ZRANGEBYSCORE', heap, '-inf', ARGV[1], 'WITHSCORES', 'LIMIT', 0, ARGV[2])
local upcoming = redis.call('ZRANGE', heap, #due / 2, #due / 2, 'WITHSCORES')[2]
local last = redis.call('ZRANGE', heap, -1, -1, 'WITHSCORES')
return {last[2] == 'inf' and last[1] or '', upcoming ~= 'inf' and upcoming or '', due}
