// Package schema builds the schema belfry from the files of sql/schema and sql/functions, and compares the schemas of two
// databases object by object. Its test proves that the migrations make the same schema as those files.
//
// Scripts and tests may import it.
package schema
