-- Adds jobs to the heap, or moves them. The epoch is the one member with an infinite score, so that the heap and its
-- epoch can only vanish together.
-- KEYS: heap. ARGV: time, job, ..., the earliest first. Returns {1 if the first is earlier than all before, epoch}.
local heap = KEYS[1]
local before = redis.call('ZRANGE', heap, 0, 0, 'WITHSCORES')
local last = redis.call('ZRANGE', heap, -1, -1, 'WITHSCORES')
redis.call('ZADD', heap, unpack(ARGV))
local earliest = before[1] == nil or tonumber(ARGV[1]) < tonumber(before[2])
return {earliest and 1 or 0, last[2] == 'inf' and last[1] or ''}
