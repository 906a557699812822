package schema

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/jackc/pgx/v5"
)

// recordTable has the schema's version. pkg/postgres/migrate creates it, not a migration.
const recordTable = "belfry.schema_migrations"

// acl is an SQL expression that describes privileges without the name of the owner. It is a format for fmt.Sprintf with the
// kind of the object, the expression of the privileges and the expression of the owner.
const acl = `(SELECT string_agg(CASE WHEN x.grantee = 0 THEN 'PUBLIC' WHEN x.grantee = %[3]s THEN 'owner' ELSE x.grantee::regrole::text END
	|| ' ' || x.privilege_type || CASE WHEN x.is_grantable THEN ' grantable' ELSE '' END, ', '
	ORDER BY x.grantee <> %[3]s, x.grantee::regrole::text, x.privilege_type)
	FROM aclexplode(coalesce(%[2]s, acldefault('%[1]s', %[3]s))) AS x)`

// relations selects the relations of the schema: tables, views, sequences and indexes.
const relations = `pg_class c WHERE c.relnamespace = 'belfry'::regnamespace AND c.oid IS DISTINCT FROM to_regclass('` + recordTable + `')
	AND NOT EXISTS (SELECT 1 FROM pg_index i WHERE i.indexrelid = c.oid AND i.indrelid = to_regclass('` + recordTable + `'))`

// descriptions are queries, one for each kind of object. Each returns two columns: kind and name, and the definition. They
// ignore the order of columns, because a column that a migration adds is the last one.
var descriptions = []string{
	`SELECT 'schema ' || n.nspname, ` + fmt.Sprintf(acl, "n", "n.nspacl", "n.nspowner") + ` FROM pg_namespace n WHERE n.nspname = 'belfry'`,

	`SELECT 'relation ' || c.relname, concat_ws(' | ', c.relkind, c.relpersistence, ARRAY (SELECT o FROM unnest(c.reloptions) AS o ORDER BY o),
		ARRAY (SELECT o FROM pg_class t, unnest(t.reloptions) AS o WHERE t.oid = c.reltoastrelid ORDER BY o), 'replica identity ' || c.relreplident::text,
		'row security ' || c.relrowsecurity::text || ' ' || c.relforcerowsecurity,
		CASE WHEN c.relkind = 'v' THEN pg_get_viewdef(c.oid) END,
		CASE WHEN c.relkind = 'i' THEN pg_get_indexdef(c.oid) END,
		(SELECT concat_ws(' ', i.indisunique, i.indisprimary, i.indisvalid, i.indisreplident, i.indisclustered) FROM pg_index i WHERE i.indexrelid = c.oid),
		(SELECT concat_ws(' ', s.seqtypid::regtype, s.seqstart, s.seqincrement, s.seqmax, s.seqmin, s.seqcache, s.seqcycle) FROM pg_sequence s WHERE s.seqrelid = c.oid),
		CASE WHEN c.relkind = 'S' THEN pg_get_serial_sequence(d.refobjid::regclass::text, a.attname) || ' of ' || d.refobjid::regclass || '.' || a.attname END,
		CASE WHEN c.relkind = 'S' THEN ` + fmt.Sprintf(acl, "s", "c.relacl", "c.relowner") + ` ELSE ` + fmt.Sprintf(acl, "r", "c.relacl", "c.relowner") + ` END)
	FROM pg_class c
	LEFT JOIN pg_depend d ON c.relkind = 'S' AND d.classid = 'pg_class'::regclass AND d.objid = c.oid AND d.deptype IN ('a', 'i') AND d.refclassid = 'pg_class'::regclass
	LEFT JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid
	WHERE c.oid IN (SELECT c.oid FROM ` + relations + `)`,

	`SELECT 'column ' || c.relname || '.' || a.attname, concat_ws(' | ', format_type(a.atttypid, a.atttypmod), 'not null ' || a.attnotnull::text,
		a.attcollation::regcollation, 'identity ' || a.attidentity::text, 'generated ' || a.attgenerated::text, 'storage ' || a.attstorage::text,
		'compression ' || a.attcompression::text, 'statistics ' || coalesce(a.attstattarget, -1), a.attoptions,
		pg_get_expr(d.adbin, d.adrelid), ` + fmt.Sprintf(acl, "c", "a.attacl", "c.relowner") + `)
	FROM pg_attribute a
	JOIN pg_class c ON c.oid = a.attrelid AND c.relkind IN ('r', 'v', 'c')
	LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
	WHERE a.attnum > 0 AND NOT a.attisdropped AND c.oid IN (SELECT c.oid FROM ` + relations + `)`,

	`SELECT 'constraint ' || k.conrelid::regclass || ' ' || k.conname, concat_ws(' | ', pg_get_constraintdef(k.oid), k.condeferrable, k.condeferred, k.convalidated)
	FROM pg_constraint k WHERE k.connamespace = 'belfry'::regnamespace AND k.conrelid IS DISTINCT FROM to_regclass('` + recordTable + `')`,

	`SELECT 'trigger ' || t.tgrelid::regclass || ' ' || t.tgname, pg_get_triggerdef(t.oid) || ' ' || t.tgenabled::text
	FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid WHERE c.relnamespace = 'belfry'::regnamespace AND NOT t.tgisinternal`,

	`SELECT 'policy ' || p.polrelid::regclass || ' ' || p.polname, concat_ws(' | ', p.polcmd, p.polpermissive, p.polroles,
		pg_get_expr(p.polqual, p.polrelid), pg_get_expr(p.polwithcheck, p.polrelid))
	FROM pg_policy p JOIN pg_class c ON c.oid = p.polrelid WHERE c.relnamespace = 'belfry'::regnamespace`,

	`SELECT 'function ' || p.oid::regprocedure, concat_ws(' | ', pg_get_function_result(p.oid), p.prokind, l.lanname, p.provolatile, 'strict ' || p.proisstrict::text,
		'parallel ' || p.proparallel::text, 'definer ' || p.prosecdef::text, 'leakproof ' || p.proleakproof::text, p.procost, p.prorows, p.prosupport, p.proconfig,
		pg_get_function_arguments(p.oid), ` + fmt.Sprintf(acl, "f", "p.proacl", "p.proowner") + `, E'\n' || p.prosrc)
	FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang WHERE p.pronamespace = 'belfry'::regnamespace`,

	`SELECT 'default privileges ' || d.defaclobjtype::text, ` + fmt.Sprintf(acl, "r", "d.defaclacl", "d.defaclrole") + `
	FROM pg_default_acl d WHERE d.defaclnamespace = 'belfry'::regnamespace`,

	`SELECT 'type ' || t.typname, concat_ws(' | ', t.typtype, format_type(t.typbasetype, t.typtypmod))
	FROM pg_type t WHERE t.typnamespace = 'belfry'::regnamespace AND t.typtype NOT IN ('b', 'c')`,

	`SELECT 'comment ' || pg_describe_object(d.classoid, d.objoid, d.objsubid), d.description
	FROM pg_description d
	WHERE d.classoid = 'pg_class'::regclass AND d.objoid IN (SELECT c.oid FROM pg_class c WHERE c.relnamespace = 'belfry'::regnamespace)
	   OR d.classoid = 'pg_proc'::regclass AND d.objoid IN (SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'belfry'::regnamespace)
	   OR d.classoid = 'pg_namespace'::regclass AND d.objoid = 'belfry'::regnamespace`,
}

// Describe returns the definition of every object of the schema belfry, by kind and name. Definitions contain no names of
// owners and no oids.
func Describe(ctx context.Context, conn *pgx.Conn) (map[string]string, error) {
	objects := map[string]string{}
	for _, query := range descriptions {
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return nil, fmt.Errorf("reading the catalog: %w", err)
		}
		var name string
		var definition *string
		_, err = pgx.ForEachRow(rows, []any{&name, &definition}, func() error {
			objects[name] = ""
			if definition != nil {
				objects[name] = *definition
			}
			return nil
		})
		if err != nil {
			return nil, fmt.Errorf("reading the catalog with %q: %w", query, err)
		}
	}
	return objects, nil
}

// Differences returns a line for each object that is missing on one side or has another definition there. The lines are
// sorted by name.
func Differences(left, right map[string]string) []string {
	names := maps.Clone(left)
	maps.Copy(names, right)
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(names)) {
		l, inLeft := left[name]
		r, inRight := right[name]
		switch {
		case !inLeft:
			lines = append(lines, "only right: "+name)
		case !inRight:
			lines = append(lines, "only left: "+name)
		case l != r:
			lines = append(lines, fmt.Sprintf("%s\n left:  %s\n right: %s", name, l, r))
		}
	}
	return lines
}
