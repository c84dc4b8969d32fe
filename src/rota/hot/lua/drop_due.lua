-- Takes jobs out of the heap that stand there with the same time still. Times are compared in whole microseconds, as
-- they are told: what stands with another one could never be taken out.
-- KEYS: heap. ARGV: time, job, ...
local jobs, gone = {}, {}
for place = 2, #ARGV, 2 do
    jobs[#jobs + 1] = ARGV[place]
end
for place, score in ipairs(redis.call('ZMSCORE', KEYS[1], unpack(jobs))) do
    local at = score and (score == '-inf' and 0 or math.floor(tonumber(score))) -- as it is told
    if at and at == tonumber(ARGV[2 * place - 1]) then
        gone[#gone + 1] = jobs[place]
    end
end
return #gone > 0 and redis.call('ZREM', KEYS[1], unpack(gone)) or 0
