-- Whether an attempt ended because its node was gone, so that its node could not finish with its output.
CREATE OR REPLACE FUNCTION rota.ended_unheard(the_job uuid, the_fence bigint) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT EXISTS (SELECT FROM rota.attempts a WHERE a.job = the_job AND a.fence = the_fence
                   AND a.outcome IN ('crashed', 'interrupted', 'cancelled'))
        OR EXISTS (SELECT FROM rota.history h WHERE h.id = the_job AND h.fence = the_fence
                   AND h.outcome IN ('crashed', 'interrupted', 'cancelled')) $$;
