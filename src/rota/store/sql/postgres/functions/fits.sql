-- Whether a gate fits a job, by the rule of `model.gates.ClosedGate.fits`: claims ask it of every ready job that they read.
-- tests/store/postgres/test_rules.py holds it against the model.
CREATE OR REPLACE FUNCTION rota.fits(gate rota.gates, owner text, task text, queue text, requirements text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$
    SELECT (gate.owner IS NULL OR gate.owner = fits.owner) AND (gate.by_user IS NULL OR gate.by_user = fits.owner)
       AND (gate.queue IS NULL OR gate.queue = fits.queue) AND (gate.task_like IS NULL OR fits.task LIKE gate.task_like)
       AND (gate.label IS NULL OR coalesce(fits.requirements::jsonb -> 'labels' ? gate.label, false)) $$;
